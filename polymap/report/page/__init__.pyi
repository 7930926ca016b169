from polymap.report.page.progress import ProgressLine as ProgressLine, to_stderr as to_stderr
