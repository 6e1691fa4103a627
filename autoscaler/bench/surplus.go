package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// giveBack empties so many nodes of the last burst and waits until they are gone.
func (l *lab) giveBack(ctx context.Context, r *report) error {
	if l.o.surplus == 0 || !l.o.readers {
		return nil
	}
	prefix := fmt.Sprintf("burst%d-", l.o.pods[len(l.o.pods)-1])
	before := l.machines.size()
	surplus := min(l.o.surplus, before)
	empty, err := l.emptied(ctx, prefix, surplus)
	if err != nil {
		return err
	}
	from := time.Now()
	err = l.until(ctx, 10*time.Minute, func() error {
		if left := l.machines.size() - (before - empty); left > 0 {
			return fmt.Errorf("%d of %d surplus nodes are left", left, empty)
		}
		return nil
	})
	took := time.Since(from)
	if err != nil {
		return err
	}
	r.add("surplus", fmt.Sprintf("%d nodes gone", empty), took.Minutes(), "min", atMost(5), "10 of 110 in 25 min")
	r.note(fmt.Sprintf("since they are empty, idleAfter %s and a cooldown of 10s included", idleAfter))
	if wrong := l.machines.size() - (before - empty); wrong != 0 {
		r.fail("surplus", fmt.Sprintf("%d nodes more than the empty ones went", -wrong))
	}
	return l.clear(ctx, prefix)
}

// emptied removes all pods of so many nodes.
func (l *lab) emptied(ctx context.Context, prefix string, n int) (int, error) {
	var pods corev1.PodList
	if err := l.client.List(ctx, &pods, client.InNamespace(work)); err != nil {
		return 0, err
	}
	by := map[string][]life{}
	for i := range pods.Items {
		if p := &pods.Items[i]; strings.HasPrefix(p.Name, prefix) {
			by[p.Spec.NodeName] = append(by[p.Spec.NodeName], life{name: p.Name})
		}
	}
	// Nodes that never had a pod are surplus already: what was bought too much.
	var names []string
	for name := range by {
		names = append(names, name)
	}
	slices.Sort(names)
	already := l.machines.size() - len(names)
	var gone []life
	for _, name := range names[:max(0, min(n-already, len(names)))] {
		gone = append(gone, by[name]...)
	}
	return max(n, already), l.removePods(ctx, gone)
}
