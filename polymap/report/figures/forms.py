"""The mark of each dataflow: told apart by form as well as by colour."""

from polymap.report.figures.svg import GREY, INK

FORMS = {
    "weight-stationary": ("square", "#df8213"),
    "output-stationary": ("triangle", "#0b8166"),
    "input-stationary": ("diamond", "#2f6fde"),
    "row-stationary": ("cross", "#8a2f6b"),
    "optimum": ("ring", INK),
}
OTHER = ("dot", GREY)
