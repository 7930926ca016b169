from polymap.codegen.faithful.main_part import (
    extremes as extremes,
    has_floors as has_floors,
    includes as includes,
    main_text as main_text,
)
from polymap.codegen.faithful.program import lower_faithful as lower_faithful
