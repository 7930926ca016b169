"""Strict readers of what users hand in, every mistake with its position: files, JSON and TOML texts, names, numbers,
machines and mappings; the machines that come along, with a source for each number."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.inputs.arguments import answers_in_words as answers_in_words
    from polymap.inputs.limits import LIMITS as LIMITS
    from polymap.inputs.machines import (
        arch_from_document as arch_from_document,
        arch_to_document as arch_to_document,
        arch_warnings as arch_warnings,
        no_energies as no_energies,
        node_problems as node_problems,
    )
    from polymap.inputs.mappings import (
        mapping_from_document as mapping_from_document,
        mapping_to_document as mapping_to_document,
        with_names_of as with_names_of,
    )
    from polymap.inputs.parsing import located as located, mistakes_in as mistakes_in, parse_json as parse_json
    from polymap.inputs.presets import load_arch as load_arch, preset_names as preset_names
    from polymap.inputs.reading import (
        LABEL_RULE as LABEL_RULE,
        NAME_RULE as NAME_RULE,
        Fields as Fields,
        as_bits as as_bits,
        as_float as as_float,
        as_fraction as as_fraction,
        as_integer as as_integer,
        as_whole as as_whole,
        expected_kind as expected_kind,
        expected_list as expected_list,
        expected_method as expected_method,
        expected_seconds as expected_seconds,
        expected_text as expected_text,
        is_label as is_label,
        is_list as is_list,
        is_long_integer as is_long_integer,
        is_name as is_name,
        is_table as is_table,
        parse_integer as parse_integer,
        read_text as read_text,
        refuse_yaml as refuse_yaml,
        shown as shown,
    )
    from polymap.inputs.writing import (
        encoded as encoded,
        is_special as is_special,
        put_in_place as put_in_place,
        stage as stage,
        unwritten as unwritten,
        write_bytes as write_bytes,
        write_device as write_device,
        write_text as write_text,
    )
