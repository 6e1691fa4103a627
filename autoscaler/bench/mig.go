package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
)

// mig: four pods want halves of cards that are cut in sevenths, of which one is
// held; and a node that is full of instances must not keep whole cards from being
// bought.
func (l *lab) mig(ctx context.Context, r *report) error {
	if !l.o.readers {
		return nil
	}
	return errors.Join(l.repartition(ctx, r), l.wholeBeside(ctx, r))
}

func (l *lab) repartition(ctx context.Context, r *report) error {
	in := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.NodeSelector[v1alpha1.NodePoolLabel] = poolCut
		return p
	}
	if err := l.create(ctx, in(podOf("cut-held", one, 1))); err != nil {
		return err
	}
	if err := l.until(ctx, time.Minute, func() error { return l.allRun("cut-", 1) }); err != nil {
		return err
	}
	if err := pause(ctx, 2*instanceIdle); err != nil { // the others are free, and have been for a while
		return err
	}
	const halves = 4
	from := time.Now()
	for i := range halves {
		if err := l.create(ctx, in(podOf(fmt.Sprintf("halves-%d", i), half, 1))); err != nil {
			return err
		}
	}
	if err := l.pending(ctx, "halves-", 1); err != nil {
		return err
	}
	waits := slices.MinFunc(l.seen.lives(of("halves-")), func(a, b life) int {
		return cmp.Or(b.pending.Compare(time.Time{})-a.pending.Compare(time.Time{}), a.pending.Compare(b.pending))
	}).pending
	var asked time.Time
	if err := l.until(ctx, time.Minute, func() error {
		var nodes corev1.NodeList
		if err := l.client.List(ctx, &nodes, client.MatchingLabels{v1alpha1.NodePoolLabel: poolCut}); err != nil {
			return err
		}
		for i := range nodes.Items {
			if _, ok, err := partition.RecordOf(&nodes.Items[i]); ok && err == nil {
				asked = time.Now()
				return nil
			}
		}
		return errors.New("no node has been asked to cut a card")
	}); err != nil {
		return err
	}
	bought := 0
	for _, c := range l.machines.since(from) {
		bought += int(c.to - c.from)
	}
	r.add("MIG", "3g wanted, 1g free: request after", asked.Sub(waits).Seconds(), "s", atMost(5), "nothing, or a node")
	r.add("MIG", "nodes bought for it", float64(bought), "", atMost(0), "1")
	return l.removePods(ctx, append(l.seen.lives(of("halves-")), l.seen.lives(of("cut-"))...))
}

func (l *lab) wholeBeside(ctx context.Context, r *report) error {
	const n = 4
	from := time.Now()
	for i := range n {
		if err := l.create(ctx, podOf(fmt.Sprintf("beside-%d", i), whole, cardsOfNode)); err != nil {
			return err
		}
	}
	if err := l.until(ctx, 2*time.Minute, func() error { return l.allRun("beside-", n) }); err != nil {
		return err
	}
	bought := 0
	for _, c := range l.machines.since(from) {
		bought += int(c.to - c.from)
	}
	last := slices.MaxFunc(l.seen.lives(of("beside-")), func(a, b life) int { return a.running.Compare(b.running) })
	r.add("MIG", fmt.Sprintf("%d nodes wanted beside a busy, cut one: bought", n), float64(bought), "", atMost(n), "3, and the last pod waited")
	r.add("MIG", "all run after", last.running.Sub(from).Seconds(), "s", nil, "")
	return l.clear(ctx, "beside-")
}
