package watch

import (
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuscale/gpuscale/sandbox/view"
)

// deciders whose Events are decisions.
var deciders = []string{"gpuscale", "horizontal-pod-autoscaler"}

// decisions collects the Events of the deciders.
type decisions struct {
	start time.Time

	mu   sync.Mutex
	seen map[string]bool
	new  []view.Decision
}

// follow begins to collect Events.
func (d *decisions) follow(informer cache.SharedIndexInformer) error {
	take := func(o any) { d.take(o.(*corev1.Event)) }
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: take, UpdateFunc: func(_, o any) { take(o) }})
	return err
}

// take records an Event if it is a new decision that was made since the start.
func (d *decisions) take(e *corev1.Event) {
	by := e.Source.Component + e.ReportingController
	decides := false
	for _, name := range deciders {
		decides = decides || strings.Contains(by, name)
	}
	// Warnings of the HPA controller are about metrics, not decisions, and come every second.
	decides = decides && (e.Type != corev1.EventTypeWarning || strings.Contains(by, "gpuscale"))
	at := e.LastTimestamp.Time
	if at.IsZero() {
		at = e.EventTime.Time
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	id := fmt.Sprintf("%s/%s/%d", e.UID, e.Message, e.Count)
	switch e.InvolvedObject.Kind {
	case "Pod", "Node": // a decision with Events for many pods and a node is shown as one line
		id = e.Reason + "/" + e.Message
		decides = decides && !strings.HasPrefix(e.Reason, "Wait")
	}
	if !decides || d.seen[id] || at.Before(d.start.Add(-2*time.Second)) {
		return
	}
	d.seen[id] = true
	subject := e.InvolvedObject.Name
	if e.InvolvedObject.Namespace != "" {
		subject = e.InvolvedObject.Namespace + "/" + subject
	}
	d.new = append(d.new, view.Decision{
		At: max(0, at.Sub(d.start)), What: what(e), Subject: subject, Reason: e.Reason, Detail: e.Message,
	})
}

// what names the kind of the decision.
func what(e *corev1.Event) string {
	switch {
	case e.Reason == "SuccessfulRescale":
		return "replicas"
	case e.InvolvedObject.Kind == "GPUNodePool":
		return "pool"
	}
	return strings.ToLower(e.InvolvedObject.Kind)
}

// drain returns the new decisions and forgets them.
func (d *decisions) drain() []view.Decision {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.new
	d.new = nil
	return out
}
