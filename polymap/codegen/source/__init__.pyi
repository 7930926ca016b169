from polymap.codegen.source.choices import ORDERS as ORDERS
from polymap.codegen.source.transform import transform_c as transform_c
