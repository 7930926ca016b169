from polymap.report.page.progress import ProgressLine as ProgressLine, to_stderr as to_stderr
from polymap.report.page.report import report_page as report_page
