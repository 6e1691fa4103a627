package states

import (
	"cmp"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/boards"
	"github.com/gpuscale/gpuscale/dashboards/preview"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/require"
)

const pictures = "../../docs/img"

// stateOf are the boards with pictures of another state than the healthy one.
var stateOf = map[string]string{"mig": MIG, "health": XID}

// There is a picture of every board in the documentation, and none is large.
func TestPictures(t *testing.T) {
	for _, b := range boards.All() {
		name := strings.TrimPrefix(b.UID, "gpuscale-")
		if flag.Lookup("update").Value.String() == "true" { // package golden's
			drawPicture(t, b, name)
		}
		files, err := filepath.Glob(filepath.Join(pictures, "board-"+name+".*"))
		if err != nil || len(files) != 1 {
			t.Errorf("%s has the pictures %v, %v", b.UID, files, err)
			continue
		}
		if info, err := os.Stat(files[0]); err != nil || info.Size() > 200<<10 {
			t.Errorf("%s: %d bytes, %v", files[0], info.Size(), err)
		}
	}
}

func drawPicture(t *testing.T, b board.Board, name string) {
	t.Helper()
	s := find(t, cmp.Or(stateOf[name], Healthy))
	svg := preview.Board(t.Context(), memstore.Over(s.WithRules().Storage(true)), b, preview.Window(s.End(), s.End().Sub(s.Start()), Every))
	require.NoError(t, os.WriteFile(filepath.Join(pictures, "board-"+name+".svg"), []byte(svg), 0o644))
}
