"""What a search answers, and the JSON documents of answers: written, and read back."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.search.result.documents import (
        cost_document as cost_document,
        evaluation_document as evaluation_document,
        head_document as head_document,
        json_text as json_text,
        mapping_document as mapping_document,
        number as number,
        result_document as result_document,
        traffic_rows as traffic_rows,
        units_document as units_document,
        violation_document as violation_document,
    )
    from polymap.search.result.reading import (
        mapping_with_cost as mapping_with_cost,
        parsed_number as parsed_number,
        result_from_document as result_from_document,
    )
    from polymap.search.result.result import (
        Moment as Moment,
        Progress as Progress,
        Scored as Scored,
        SearchResult as SearchResult,
        Settings as Settings,
        SpaceCount as SpaceCount,
    )
