package fakedcgm

import (
	"fmt"
	"strings"
)

// FieldMeta is what DCGM 4.5.2 knows about a field.
type FieldMeta struct {
	ID    uint16
	Type  rune // 'i', 'd', 's', or 'b' for a structure
	Level uint // the entity group that has it, as DCGM numbers them
	Tag   string
}

// FieldTable lists all fields of DCGM 4.5.2, sorted: the fake's own table.
func FieldTable() []FieldMeta {
	text, err := embedded.ReadFile("c/fields.h")
	if err != nil {
		panic(err) // it is embedded
	}
	var out []FieldMeta
	for line := range strings.Lines(string(text)) {
		var f FieldMeta
		var scope int
		if n, _ := fmt.Sscanf(line, "FIELD(%d, '%c', %d, %d, %q)", &f.ID, &f.Type, &f.Level, &scope, &f.Tag); n == 5 {
			out = append(out, f)
		}
	}
	return out
}
