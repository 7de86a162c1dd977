"""Results as a training run gives them, with names that attack the page."""

from typing import Any

HOSTILE = ("<script>alert(1)</script>", "</script><img src=x onerror=alert(2)>", "a'\"&<b>")


def hostile_results() -> dict[str, Any]:
    tetrahedron = {
        "vertices": [[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]],
        "faces": [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]],
        "levels": [[0, 0, 1, 2], [0, 0, 1, 1]],
        "attention": [[0.25, 1.0, 1.0, 1.75], [1.0, 0.5, 1.5, 1.0]],
        "probability": 0.875,
    }
    return {
        "title": f"Title {HOSTILE[0]}",
        "lead": HOSTILE[1],
        "command": f"equigeo evaluate {HOSTILE[0]}",
        "facts": [[name, name] for name in HOSTILE],
        "history": [
            {"epoch": 1, "loss": 1.0, "train_accuracy": 0.5, "test_accuracy": None},
            {"epoch": 2, "loss": 0.5, "train_accuracy": 0.75, "test_accuracy": 0.625},
        ],
        "classes": list(HOSTILE),
        "confusion": [[2, 0, 0], [1, 1, 0], [0, 0, 2]],
        "names": [f"{name}/{i}" for name in HOSTILE for i in range(2)],
        "labels": [0, 0, 1, 1, 2, 2],
        "predictions": [0, 0, 0, 1, 2, 2],
        "confidences": [0.5, 0.6, 0.7, 0.8, 0.9, 1.0],
        "copies": [
            {
                "kind": HOSTILE[0],
                "accuracy": 0.5,
                "changed": list(HOSTILE),
                "largest_difference": 1e-6,
            }
        ],
        "shapes": [
            tetrahedron | {"name": a, "label": b, "prediction": c}
            for a, b, c in [HOSTILE, (HOSTILE[1], HOSTILE[0], HOSTILE[0])]
        ],
    }


def segmentation_results() -> dict[str, Any]:
    """Results of a network that tells parts, on meshes with labels."""
    results = hostile_results()
    for name in ("names", "labels", "predictions", "confidences"):
        del results[name]
    for shape in results["shapes"]:
        del shape["label"], shape["prediction"], shape["probability"]
        shape |= {"predicted_parts": [0, 1, 2, 0], "labelled_parts": [0, 2, 2, -1], "accuracy": 0.5}
    return results | {"samples": "faces"}
