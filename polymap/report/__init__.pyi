from polymap.report.numbers import (
    energy as energy,
    exact as exact,
    listing as listing,
    percent as percent,
    plural as plural,
    short as short,
    size as size,
    table as table,
    times as times,
    unit_of as unit_of,
    unit_text as unit_text,
)
