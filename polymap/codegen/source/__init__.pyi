from polymap.codegen.source.transform import ORDERS as ORDERS, transform_c as transform_c
