"""Small files in TSPLIB's format."""

BOX = """NAME : box
COMMENT : four corners
TYPE : TSP
DIMENSION: 4
EDGE_WEIGHT_TYPE : EUC_2D
NODE_COORD_SECTION
  2 0.0 4e0
  1 0 0
 3 3 4
 4 3 0
EOF
"""


def explicit(form, numbers):
    return (
        "NAME: five\nTYPE: TSP\nDIMENSION: 5\nEDGE_WEIGHT_TYPE: EXPLICIT\n"
        f"EDGE_WEIGHT_FORMAT: {form} \nEDGE_WEIGHT_SECTION\n{numbers}\n"
    )


def write_library(folder):
    """Euclidean instances with best lengths, and one that is not Euclidean."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "box.tsp").write_text(BOX)
    ring = [(10, 0), (9, 5), (5, 9), (0, 10), (-4, 9), (-9, 4), (-10, -1)]
    rows = "\n".join(f"{i + 1} {x} {y}" for i, (x, y) in enumerate(ring))
    text = BOX.replace("4\nEDGE", "7\nEDGE").replace(BOX[BOX.index("  2 0.0") :], rows)
    (folder / "ring.tsp").write_text(text)
    (folder / "five.tsp").write_text(explicit("UPPER_ROW", "1 2 3 4\n5 6 7 8 9 10"))
    (folder / "solutions").write_text("box : 14\nring : 52\nfive : 27 (EXPLICIT)\n")
    return folder
