package chart_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscale/gpuscale/internal/require"
)

var (
	block = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	// A value as prose names it: `adapter.apis.custom: false`.
	inline = regexp.MustCompile("`([a-z][A-Za-z]*(?:\\.[A-Za-z]+)+)(?:: ([^`]*))?`")
)

// TestThePageRenders: the values in the text of docs/install.md are values of the chart. Its blocks
// are rendered in sandbox/docs.
func TestThePageRenders(t *testing.T) {
	h := helm(t)
	text, err := os.ReadFile("../../docs/install.md")
	require.NoError(t, err)
	values := defaults(t)
	named := 0
	for _, m := range inline.FindAllSubmatch(block.ReplaceAll(text, nil), -1) {
		path, value := string(m[1]), string(m[2])
		if _, ours := values[strings.Split(path, ".")[0]]; !ours {
			continue // a file's name, another program's word
		}
		named++
		if _, found, _ := unstructured.NestedFieldNoCopy(values, strings.Split(path, ".")...); !found {
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

// nest writes a.b: c as {a: {b: c}}, with nothing but what it needs beside it.
func nest(path, value string) string {
	keys := strings.Split(path, ".")
	return strings.Join(keys, ": {") + ": " + value + strings.Repeat("}", len(keys)-1)
}
