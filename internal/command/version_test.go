package command

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/buildinfo"
)

func run(args ...string) (string, error) {
	cmd := newVersion("gpuscale-x")
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs(args)
	err := cmd.Execute()
	return out.String(), err
}

func TestVersion(t *testing.T) {
	text, err := run()
	if err != nil || !strings.HasPrefix(text, "gpuscale-x "+buildinfo.Version()+"\n  commit ") {
		t.Errorf("got %q, %v", text, err)
	}
	out, err := run("-o", "json")
	var got buildinfo.Info
	if err != nil || json.Unmarshal([]byte(out), &got) != nil || got != buildinfo.Get("gpuscale-x") {
		t.Errorf("got %q, %v", out, err)
	}
	for _, bad := range [][]string{{"-o", "yaml"}, {"extra"}} {
		if out, err := run(bad...); err == nil {
			t.Errorf("%v: no error, and %q", bad, out)
		}
	}
}
