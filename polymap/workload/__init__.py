"""Front ends for loop nests: einsums, layers, networks, programs, documents and C; dependences."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.workload.attention import (
        Letters as Letters,
        Step as Step,
        attention_steps as attention_steps,
        sizes_within as sizes_within,
        softmax_steps as softmax_steps,
    )
    from polymap.workload.dependence_analysis import (
        Dependence as Dependence,
        Kind as Kind,
        Nested as Nested,
        dependence_relations as dependence_relations,
        dependences as dependences,
        domain_of as domain_of,
        interleaved as interleaved,
        leaves_unwritten as leaves_unwritten,
        shared_dims as shared_dims,
        unset_read as unset_read,
    )
    from polymap.workload.document import (
        load_workload as load_workload,
        read_c as read_c,
        workload_from_document as workload_from_document,
        workload_to_document as workload_to_document,
    )
    from polymap.workload.einsums import einsum as einsum
    from polymap.workload.expansion import expanded as expanded
    from polymap.workload.joining import (
        Link as Link,
        join_nests as join_nests,
        why_apart as why_apart,
        with_axes_merged as with_axes_merged,
        with_blocks_as_dims as with_blocks_as_dims,
        without_idle_dims as without_idle_dims,
    )
    from polymap.workload.layers import LAYERS as LAYERS
    from polymap.workload.networks import (
        builtin_names as builtin_names,
        builtin_networks as builtin_networks,
        builtin_workload as builtin_workload,
        network_layers as network_layers,
    )
    from polymap.workload.notation import (
        affine_text as affine_text,
        quasi_affine as quasi_affine,
        read_affine as read_affine,
    )
    from polymap.workload.openscop import Matrix as Matrix, outputs_of as outputs_of, scatterings_of as scatterings_of
    from polymap.workload.text import (
        expression_text as expression_text,
        statement_text as statement_text,
        workload_text as workload_text,
    )
