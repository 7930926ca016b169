from polymap.report.text.answers import (
    checkup_document as checkup_document,
    cost_document as cost_document,
    curve_document as curve_document,
    evaluation_document as evaluation_document,
    head_document as head_document,
    json_text as json_text,
    list_document as list_document,
    mapping_document as mapping_document,
    number as number,
    result_document as result_document,
    run_document as run_document,
    units_document as units_document,
    verdict_document as verdict_document,
)
from polymap.report.text.explanation import explain as explain
from polymap.report.text.formula import formula_text as formula_text
from polymap.report.text.reading import result_from_document as result_from_document
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
    space_text as space_text,
    status_text as status_text,
    verdict_text as verdict_text,
    violation_text as violation_text,
)
from polymap.report.text.symbolic import symbolic_document as symbolic_document, symbolic_text as symbolic_text
