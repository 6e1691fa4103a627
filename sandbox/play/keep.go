package play

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gpuscale/gpuscale/sandbox/view"
	"github.com/gpuscale/gpuscale/sandbox/world"
)

// errLooked is what a story ends with that failed and was looked at.
var errLooked = errors.New("the story had failed (see above)")

// Failed says whether the story failed on its own, even if somebody has
// pressed Ctrl-C since.
func Failed(err error) bool { return errors.Is(err, errLooked) }

// places of a running world that people want to look at.
type places struct {
	kubeconfig, kubectl, prometheus, autoscaler, logs string
}

func placesOf(o Options, w *world.World) places {
	return places{
		kubeconfig: w.Kubeconfig(),
		kubectl:    o.Binaries.ControlPlane.Program("kubectl"),
		prometheus: w.PrometheusURL(),
		autoscaler: w.AutoscalerURL(),
		logs:       filepath.Join(w.Dir(), "logs"),
	}
}

func (p places) text() string {
	return fmt.Sprintf(`
kept running until Ctrl-C, which ends and removes everything:
  export KUBECONFIG=%s
  alias kubectl=%s
  kubectl get pods -A -o wide
  Prometheus   %s
  autoscaler   %s/debug/plan
  logs         %s`, p.kubeconfig, p.kubectl, p.prometheus, p.autoscaler, p.logs)
}

// running is what keep watches over.
type running interface {
	Failed() <-chan struct{}
	Err() error
}

// keep everything running until ctx ends. failed is why the story failed; nil
// when it was played well. A program that dies later is told of too.
func keep(ctx context.Context, v *view.View, p places, w running, failed error) error {
	if failed != nil {
		v.Print(fmt.Sprintf("\nfailed    %v", failed))
	}
	v.Print(p.text())
	died := w.Failed()
	if w.Err() != nil { // told of already
		died = nil
	}
	select {
	case <-ctx.Done():
	case <-died:
		v.Print(fmt.Sprintf("\nfailed    %v\n          the rest keeps running until Ctrl-C", w.Err()))
		failed = w.Err()
		<-ctx.Done()
	}
	if failed != nil {
		return errLooked
	}
	return nil
}
