from polymap.codegen.source.transform import ORDERS as ORDERS
