from polymap.codegen.forms import Form as Form
