"""Answers for people: texts, values in notebooks, pages. Nothing that answers imports from here."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.report.answers import (
        checkup_document as checkup_document,
        list_document as list_document,
        run_document as run_document,
        verdict_document as verdict_document,
    )
    from polymap.report.explanation import explain as explain
    from polymap.report.families import comparison_document as comparison_document, comparison_text as comparison_text
    from polymap.report.formula import formula_text as formula_text
    from polymap.report.layouts import (
        bursts_text as bursts_text,
        layouts_text as layouts_text,
        misses_text as misses_text,
    )
    from polymap.report.machines import (
        binding_figure as binding_figure,
        binding_svg as binding_svg,
        machine_front_figure as machine_front_figure,
        machine_front_svg as machine_front_svg,
    )
    from polymap.report.networks import (
        answer_text as answer_text,
        network_text as network_text,
        sweep_text as sweep_text,
    )
    from polymap.report.prices import sensitivity_document as sensitivity_document, sensitivity_text as sensitivity_text
    from polymap.report.progress import ProgressLine as ProgressLine, to_stderr as to_stderr
    from polymap.report.report import network_page as network_page, report_page as report_page, sweep_page as sweep_page
    from polymap.report.schemas import SCHEMAS as SCHEMAS, schema_text as schema_text
    from polymap.report.summary import (
        checkup_text as checkup_text,
        cost_text as cost_text,
        dependence_text as dependence_text,
        dividing_text as dividing_text,
        figures_text as figures_text,
        list_text as list_text,
        no_answer_text as no_answer_text,
        proof_text as proof_text,
        result_text as result_text,
        run_text as run_text,
        status_text as status_text,
        violation_text as violation_text,
    )
    from polymap.report.symbolic import symbolic_document as symbolic_document, symbolic_text as symbolic_text
    from polymap.report.transform_html import (
        transform_document as transform_document,
        transform_page as transform_page,
        transform_text as transform_text,
    )
    from polymap.report.tuning import TUNING as TUNING
