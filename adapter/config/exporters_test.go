package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/gpu/trust"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestExporterNamespaces: rules trust the default unless the file says
// otherwise, and an empty list trusts no target.
func TestExporterNamespaces(t *testing.T) {
	const prometheus = "prometheus: {url: 'http://127.0.0.1:9090'}\n"
	for _, c := range []struct {
		text string
		want []string
	}{
		{"", Default().ExporterNamespaces},
		{"exporterNamespaces: [mine]\n", []string{"mine"}},
		{"exporterNamespaces: []\n", []string{}},
		{"exporterNamespaces: ['*']\n", nil},
	} {
		f, err := Read("config.yaml", []byte(prometheus+c.text))
		require.NoError(t, err)
		for _, r := range f.Signals() {
			if !slices.Equal(r.Exporters, trust.Exporters(c.want)) || (r.Exporters == nil) != (c.want == nil) {
				t.Errorf("%q: %s trusts %q, want %q", c.text, r.Name, r.Exporters, c.want)
			}
		}
	}
	_, err := Read("config.yaml", []byte(prometheus+"exporterNamespaces: [Not-a-Name]\n"))
	if err == nil || !strings.Contains(err.Error(), "exporterNamespaces[0]") {
		t.Errorf("a wrong name: %v", err)
	}
}
