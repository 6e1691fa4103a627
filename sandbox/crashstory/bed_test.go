package crashstory

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/proc"
)

var (
	program = flag.String("autoscaler", "", "the autoscaler to test; empty: built from this checkout")
	verbose = flag.Bool("steps", false, "say how long each step took")
)

// shared is the one control plane of all tests here: they run one after another.
var shared struct {
	once sync.Once
	bed  *Bed
	err  error
}

func TestMain(m *testing.M) {
	flag.Parse()
	ctrllog.SetLogger(logr.Discard())
	code := m.Run()
	if shared.bed != nil {
		shared.bed.Stop()
	}
	os.Exit(code)
}

func bed(t *testing.T) *Bed {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the real control plane, which takes minutes to compile the first time")
	}
	shared.once.Do(func() { shared.bed, shared.err = newTestBed(context.Background()) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.bed
}

func newTestBed(ctx context.Context) (*Bed, error) {
	root, err := build.FindRoot()
	if err != nil {
		return nil, err
	}
	level := slog.LevelWarn
	if *verbose {
		level = slog.LevelDebug
	}
	o := BedOptions{Root: root, Autoscaler: *program, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))}
	if o.Binaries, err = build.ControlPlane(ctx, build.Options{Out: os.Stderr}); err != nil {
		return nil, err
	}
	if o.Autoscaler == "" {
		folder, err := build.Programs(ctx, build.Options{Out: os.Stderr})
		if err != nil {
			return nil, err
		}
		o.Autoscaler = filepath.Join(folder, "gpuscale-autoscaler")
	}
	return NewBed(ctx, o)
}

// newTestReplica ends with the test.
func newTestReplica(t *testing.T, b *Bed, name string, elect bool) *replica {
	t.Helper()
	r, err := b.newReplica(name, elect)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			fmt.Fprintln(os.Stderr, "the log of", name, "ends:")
			for _, line := range tail(b.cluster.LogFile(name), 40) {
				fmt.Fprintln(os.Stderr, "   ", line)
			}
		}
		r.close()
	})
	return r
}

func tail(file string, n int) []string { return proc.Tail(file, n) }
