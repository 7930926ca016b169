"""One search from question to answer: its phases, results, certificates, and why rules clash."""
