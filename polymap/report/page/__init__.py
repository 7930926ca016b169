"""Values in terminals and notebooks, and a page of HTML about one question."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.report.page.families import (
        comparison_document as comparison_document,
        comparison_text as comparison_text,
    )
    from polymap.report.page.machines import (
        binding_figure as binding_figure,
        binding_svg as binding_svg,
        machine_front_figure as machine_front_figure,
        machine_front_svg as machine_front_svg,
    )
    from polymap.report.page.many import network_page as network_page, sweep_page as sweep_page
    from polymap.report.page.prices import (
        sensitivity_document as sensitivity_document,
        sensitivity_text as sensitivity_text,
    )
    from polymap.report.page.progress import ProgressLine as ProgressLine, to_stderr as to_stderr
    from polymap.report.page.report import report_page as report_page
    from polymap.report.page.transformed import transform_page as transform_page
