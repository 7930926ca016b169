from polymap.costmodel.symbolic.derivation import formula as formula
from polymap.costmodel.symbolic.formulas import Formula as Formula
