"""What the site needs beside Sphinx: formulas, tutorials that were run, and the API's pages."""
