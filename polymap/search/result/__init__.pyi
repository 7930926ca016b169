from polymap.search.result.result import (
    Moment as Moment,
    Progress as Progress,
    Scored as Scored,
    SearchResult as SearchResult,
    Settings as Settings,
    SpaceCount as SpaceCount,
)
