package chart_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/internal/require"
)

// node is a part of values.schema.json.
type node struct {
	Type       any // a word or several
	Properties map[string]*node
	Additional *bool `json:"additionalProperties"`
	Required   []string
	Items      *node
	Pattern    string
	Enum       []any
}

func (n *node) nullable() bool {
	types, several := n.Type.([]any)
	return several && slices.Contains(types, any("null"))
}

func valuesSchema(t *testing.T) *node {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("gpuscale", "values.schema.json"))
	require.NoError(t, err)
	var n node
	require.NoError(t, json.Unmarshal(raw, &n))
	return &n
}

func defaults(t *testing.T) map[string]any {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("gpuscale", "values.yaml"))
	require.NoError(t, err)
	var values map[string]any
	require.NoError(t, yaml.Unmarshal(raw, &values))
	return values
}

// TestSchemaIsOfTheValues: both files have the same keys, an unknown key is an
// error everywhere, and a key is required unless empty is a value of it. Helm
// removes a key that is null, and templates read that as empty.
func TestSchemaIsOfTheValues(t *testing.T) {
	var walk func(path string, n *node, values map[string]any)
	walk = func(path string, n *node, values map[string]any) {
		if n.Additional == nil || *n.Additional {
			t.Errorf("%s takes keys that it does not name", path)
		}
		have, want := slices.Sorted(maps.Keys(n.Properties)), slices.Sorted(maps.Keys(values))
		if !slices.Equal(have, want) {
			t.Fatalf("%s: the schema has %v, values.yaml %v", path, have, want)
		}
		for key, child := range n.Properties {
			needed := values[key] != "" && !child.nullable() && child.Type != "array" && (child.Type != "object" || child.Properties != nil)
			if required := slices.Contains(n.Required, key); required != needed {
				t.Errorf("%s.%s: required is %v, want %v", path, key, required, needed)
			}
			if child.Properties != nil {
				walk(path+"."+key, child, values[key].(map[string]any))
			}
		}
	}
	walk("", valuesSchema(t), defaults(t))
}

// TestEveryValueIsDescribed, but for those whose name is Kubernetes' own word.
func TestEveryValueIsDescribed(t *testing.T) {
	plain := strings.Fields(`repository tag digest port affinity nodeSelector tolerations priorityClassName resources podAnnotations podLabels
		extraArgs extraEnv extraVolumes extraVolumeMounts name create annotations enabled runtimeClassName servicePort namespace configMap
		currency storageClassName size topologySpreadConstraints labels interval labelKey labelValue`)
	page, err := os.ReadFile(filepath.Join("gpuscale", "README.md"))
	require.NoError(t, err)
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|.*\\| (.*) ?\\|$").FindAllStringSubmatch(string(page), -1)
	if len(rows) < 150 {
		t.Errorf("only %d values in README.md", len(rows))
	}
	for _, row := range rows {
		key := row[1][strings.LastIndex(row[1], ".")+1:]
		if strings.TrimSpace(row[2]) == "" && !slices.Contains(plain, key) {
			t.Errorf("%s has no description", row[1])
		}
	}
}
