package boards_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuscale/gpuscale/dashboards/boards"
	"github.com/gpuscale/gpuscale/dashboards/eval"
)

const folder = "../../deploy/chart/gpuscale/files/dashboards"

// Every file is within Grafana's schema: no unknown field, none missing.
func TestFilesAreWithinTheSchema(t *testing.T) {
	for _, b := range boards.All() {
		text, err := os.ReadFile(filepath.Join(folder, b.UID+".json"))
		if err != nil {
			t.Fatal(err)
		}
		d, titles, err := eval.Load(text)
		if err != nil {
			t.Errorf("%s: %v", b.UID, err)
			continue
		}
		if d.Uid == nil || *d.Uid != b.UID || len(eval.Panels(d)) == 0 || len(titles) != len(b.Marks) {
			t.Errorf("%s was not read back whole", b.UID)
		}
	}
}

// The schema test can fail.
func TestSchemaRefuses(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(folder, boards.OverviewUID+".json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{`"schemaVersion"`, `"schemaVersions"`},
		{`"graphMode"`, `"graphModes"`},
		{`"expr"`, `"expression"`},
		{`"title": "GPUs"`, `"title": 7`},
	} {
		broken := bytes.Replace(text, []byte(change[0]), []byte(change[1]), 1)
		if bytes.Equal(broken, text) {
			t.Fatalf("%s is not in the file", change[0])
		}
		if _, _, err := eval.Load(broken); err == nil {
			t.Errorf("%s in place of %s was accepted", change[1], change[0])
		}
	}
}
