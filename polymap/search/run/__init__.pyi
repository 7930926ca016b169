from polymap.search.run.answer import best_so_far as best_so_far
from polymap.search.run.certificate import asked_head as asked_head, check_certifiable as check_certifiable
from polymap.search.run.result import Progress as Progress, SearchResult as SearchResult
from polymap.search.run.stages import search as search
