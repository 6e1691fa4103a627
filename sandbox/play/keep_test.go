package play

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/sandbox/view"
)

// fakeRunning runs until the test reports its death.
type fakeRunning struct {
	died chan struct{}
	mu   sync.Mutex
	err  error
	// later is why it dies as soon as it was seen alive.
	later string
}

func (f *fakeRunning) Failed() <-chan struct{} { return f.died }
func (f *fakeRunning) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.err
	if f.later != "" {
		f.err, f.later = errors.New(f.later), ""
		close(f.died)
	}
	return err
}

func (f *fakeRunning) die(why string) {
	f.mu.Lock()
	f.err = errors.New(why)
	f.mu.Unlock()
	close(f.died)
}

// kept keeps until Ctrl-C, pressed once until has been drawn, and returns
// everything drawn.
func kept(t *testing.T, w *fakeRunning, failed error, until string) (string, error) {
	t.Helper()
	ctx, ctrlC := context.WithCancel(context.Background())
	out := &drawn{want: until, seen: ctrlC}
	ended := make(chan error, 1)
	go func() {
		ended <- keep(ctx, view.Plain(out), places{kubeconfig: "/k", kubectl: "/bin/kubectl", report: "/a b/report", prometheus: "http://p"}, w, failed)
	}()
	select {
	case err := <-ended:
		return out.b.String(), err
	case <-time.After(time.Minute):
		ctrlC()
		<-ended
		t.Fatalf("%q was never drawn:\n%s", until, out.b.String())
		return "", nil
	}
}

// drawn calls seen when it has got what was wanted. One goroutine writes to it.
type drawn struct {
	b    strings.Builder
	want string
	seen func()
}

func (d *drawn) Write(p []byte) (int, error) {
	n, err := d.b.Write(p)
	if strings.Contains(d.b.String(), d.want) {
		d.seen()
	}
	return n, err
}

func TestKeepStaysWhenTheStoryFailed(t *testing.T) {
	text, err := kept(t, &fakeRunning{died: make(chan struct{})}, errors.New("no node came"), "get --raw")
	if !Failed(err) {
		t.Errorf("got %v, want that it had failed", err)
	}
	if !strings.Contains(text, "failed    no node came\n") || !strings.Contains(text, "export KUBECONFIG") {
		t.Errorf("got\n%s", text)
	}
}

// A death is reported while everything is kept, and also one at the story's very end.
func TestKeepReportsADeath(t *testing.T) {
	dead := &fakeRunning{died: make(chan struct{})}
	dead.die("etcd was killed")
	for when, w := range map[string]*fakeRunning{"later": {died: make(chan struct{}), later: "etcd was killed"}, "at the end": dead} {
		text, err := kept(t, w, nil, "the rest keeps running")
		if !Failed(err) || strings.Count(text, "etcd was killed") != 1 {
			t.Errorf("%s: %v\n%s", when, err, text)
		}
	}
}
