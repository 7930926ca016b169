from polymap.report.numbers import exact as exact, table as table
