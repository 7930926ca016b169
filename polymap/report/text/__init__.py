"""Summaries, explanations and tables as text; answers as JSON."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.report.text.answers import (
        checkup_document as checkup_document,
        curve_document as curve_document,
        list_document as list_document,
        run_document as run_document,
        verdict_document as verdict_document,
    )
    from polymap.report.text.explanation import explain as explain
    from polymap.report.text.formula import formula_text as formula_text
    from polymap.report.text.layouts import (
        bursts_text as bursts_text,
        layouts_text as layouts_text,
        misses_text as misses_text,
    )
    from polymap.report.text.networks import (
        answer_text as answer_text,
        binding as binding,
        machine_label as machine_label,
        network_text as network_text,
        sweep_text as sweep_text,
    )
    from polymap.report.text.schemas import SCHEMAS as SCHEMAS, schema_text as schema_text
    from polymap.report.text.summary import (
        checkup_text as checkup_text,
        cost_text as cost_text,
        dependence_text as dependence_text,
        dividing_text as dividing_text,
        figures_text as figures_text,
        list_text as list_text,
        no_answer_text as no_answer_text,
        orders_text as orders_text,
        proof_text as proof_text,
        result_text as result_text,
        run_text as run_text,
        status_text as status_text,
        violation_text as violation_text,
    )
    from polymap.report.text.symbolic import symbolic_document as symbolic_document, symbolic_text as symbolic_text
    from polymap.report.text.transformed import (
        change_of as change_of,
        transform_document as transform_document,
        transform_text as transform_text,
    )
