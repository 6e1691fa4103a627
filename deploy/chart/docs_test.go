package chart_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
)

var (
	block = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	// A value as prose names it: `adapter.apis.custom: false`.
	inline = regexp.MustCompile("`([a-z][A-Za-z]*(?:\\.[A-Za-z]+)+)(?:: ([^`]*))?`")
)

// TestThePageRenders: the values in docs/install.md are values of the chart, the
// blocks and those in the text.
func TestThePageRenders(t *testing.T) {
	h := helm(t)
	text, err := os.ReadFile("../../docs/install.md")
	require.NoError(t, err)
	blocks := block.FindAllSubmatch(text, -1)
	if len(blocks) < 2 {
		t.Errorf("%d blocks", len(blocks))
	}
	for _, b := range blocks {
		if bytes.HasPrefix(b[1], []byte("apiVersion:")) {
			continue // an object, and no values: sandbox/docs has the API server judge it
		}
		if objects := render(t, h, string(b[1])); len(objects) == 0 {
			t.Errorf("nothing is rendered of\n%s", b[1])
		}
	}
	values := defaults(t)
	named := 0
	for _, m := range inline.FindAllSubmatch(block.ReplaceAll(text, nil), -1) {
		path, value := string(m[1]), string(m[2])
		if _, ours := values[strings.Split(path, ".")[0]]; !ours {
			continue // a file's name, another program's word
		}
		named++
		if !has(values, strings.Split(path, ".")) {
			t.Errorf("there is no value %s", path)
		}
		if value == "" {
			continue
		}
		if _, err := h.Template(t.Context(), releaseWith(nest(path, value))); err != nil {
			t.Errorf("%s: %s: %v", path, value, err)
		}
	}
	if named < 15 {
		t.Errorf("only %d values are named", named)
	}
}

func has(values map[string]any, path []string) bool {
	v, ok := values[path[0]]
	if !ok || len(path) == 1 {
		return ok
	}
	below, isObject := v.(map[string]any)
	return isObject && has(below, path[1:])
}

// nest writes a.b: c as {a: {b: c}}, with nothing but what it needs beside it.
func nest(path, value string) string {
	keys := strings.Split(path, ".")
	return strings.Join(keys, ": {") + ": " + value + strings.Repeat("}", len(keys)-1)
}
