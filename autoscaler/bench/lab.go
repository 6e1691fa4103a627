package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/proc"
)

// lab is a control plane, the doubles beside it, and the program that is measured.
type lab struct {
	o        options
	progress *progress
	root     string
	dir      string // logs
	cluster  *cluster.Cluster
	rest     *rest.Config
	client   client.Client
	clients  kubernetes.Interface
	cards    *exporters
	seen     *seen
	machines *machines
	subject  *proc.Process
	address  string // of the program
	broken   chan error
}

// newLab returns with everything running. stop ends it and must be called, whatever
// the error.
func newLab(ctx context.Context, o options, p *progress) (l *lab, stop func(), err error) {
	l = &lab{o: o, progress: p, broken: make(chan error, 1)}
	var undo []func()
	stop = func() {
		for _, f := range slices.Backward(undo) {
			f()
		}
	}
	if l.root, err = build.FindRoot(); err != nil {
		return l, stop, err
	}
	if l.dir = o.keep; l.dir == "" {
		if l.dir, err = os.MkdirTemp("", "gpuscale-bench-"); err != nil {
			return l, stop, fmt.Errorf("making a folder: %w", err)
		}
		undo = append(undo, func() { _ = os.RemoveAll(l.dir) })
	}
	if l.dir, err = filepath.Abs(l.dir); err == nil {
		err = os.MkdirAll(l.dir, 0o755)
	}
	if err != nil {
		return l, stop, fmt.Errorf("making the folder of -keep: %w", err)
	}
	if err := l.compile(ctx); err != nil {
		return l, stop, err
	}
	if l.cards, err = startExporters(); err != nil {
		return l, stop, err
	}
	undo = append(undo, l.cards.stop)
	life, cancel := context.WithCancel(ctx)
	undo = append(undo, func() {
		if l.cluster != nil {
			l.cluster.Stop()
		}
	}, cancel)
	for _, step := range []struct {
		what string
		do   func(ctx, life context.Context) error
	}{
		{"starting the control plane", l.startCluster},
		{"making pools", l.makePools},
		{fmt.Sprintf("making %d nodes and filling them", o.nodes), l.makeNodes},
		{"starting the autoscaler", l.startSubject},
	} {
		p.say("%s", step.what)
		if err := step.do(ctx, life); err != nil {
			return l, stop, fmt.Errorf("%s: %w", step.what, l.why(err))
		}
	}
	return l, stop, nil
}

// compile builds the program from this tree, unless one was named.
func (l *lab) compile(ctx context.Context) error {
	if l.o.binary != "" {
		return nil
	}
	l.progress.say("building the autoscaler")
	l.o.binary = filepath.Join(l.dir, "gpuscale-autoscaler")
	compile := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", l.o.binary, "github.com/gpuscale/gpuscale/autoscaler")
	compile.Stderr = os.Stderr
	if err := compile.Run(); err != nil {
		return fmt.Errorf("building the autoscaler: %w", err)
	}
	return nil
}

func (l *lab) audit() string { return filepath.Join(l.dir, "audit.log") }

// create an object, once its kind is served.
func (l *lab) create(ctx context.Context, o client.Object) error {
	return l.until(ctx, time.Minute, func() error {
		err := l.client.Create(ctx, o)
		if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			return await.Final(fmt.Errorf("making %s: %w", o.GetName(), err))
		}
		return err
	})
}

// until waits for what holds once done returns nil, for so long at the most. What the
// bench needs and has ended ends it early.
func (l *lab) until(ctx context.Context, most time.Duration, done func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("not within %s", most))
	defer cancel()
	return l.cluster.Await(ctx, func(context.Context) error {
		select {
		case broken := <-l.broken:
			return await.Final(broken)
		default:
			return done()
		}
	})
}

// why adds what a program that has ended said last.
func (l *lab) why(err error) error {
	if err == nil || l.cluster == nil || l.cluster.Err() == nil || errors.Is(err, l.cluster.Err()) {
		return err
	}
	return fmt.Errorf("%w: %w", err, l.cluster.Err())
}

// of tells the pods of a scene by how their names begin.
func of(prefix string) func(string) bool {
	return func(name string) bool { return strings.HasPrefix(name, prefix) }
}
