from polymap.report.page.report import report_page as report_page
