package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// gang makes a gang of eight nodes with room for five, then makes room, then one
// that comes member by member.
func (l *lab) gang(ctx context.Context, r *report) error {
	const members, room = 8, 5
	from := time.Now()
	if err := l.create(ctx, podGroup("gang", members)); err != nil {
		return err
	}
	if err := l.members(ctx, "gang", members); err != nil {
		return err
	}
	if err := l.pending(ctx, "gang-", members); err != nil {
		return err
	}
	if err := pause(ctx, 10*time.Second); err != nil {
		return err
	}
	bought := 0
	for _, c := range l.machines.since(from) {
		bought += int(c.to - c.from)
	}
	r.add("gang", fmt.Sprintf("nodes bought for %d with room for %d", members, room), float64(bought), "", atMost(0), "5")
	why, err := l.told(ctx, "gang-0")
	if err != nil {
		return err
	}
	r.note("said: " + why)
	if why == "" {
		r.fail("gang", "no Event says why nothing is bought")
	}
	from = time.Now()
	wider := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"max":8}}`))
	if err := l.client.Patch(ctx, pool(poolGang, 0, members, 98, true), wider); err != nil {
		return err
	}
	at, to, err := l.call(ctx, from, poolGang)
	if err != nil {
		return err
	}
	r.add("gang", "call once there is room", at.Sub(from).Seconds(), "s", atMost(1), "")
	r.note(fmt.Sprintf("one call, %d nodes", to))
	if to != members {
		r.fail("gang", fmt.Sprintf("the first call was for %d nodes, not %d", to, members))
	}
	if err := l.until(ctx, 2*time.Minute, func() error { return l.allRun("gang-", members) }); err != nil {
		return err
	}
	if err := l.removePods(ctx, l.seen.lives(of("gang-"))); err != nil {
		return err
	}
	return l.shrink(ctx, poolGang)
}

// members makes the pods of a gang.
func (l *lab) members(ctx context.Context, group string, n int) error {
	return each(ctx, n, func(i int) error {
		p := podOf(fmt.Sprintf("%s-%d", group, i), whole, cardsOfNode)
		p.Labels["scheduling.x-k8s.io/pod-group"] = group
		p.Spec.NodeSelector[v1alpha1.NodePoolLabel] = poolGang
		return l.create(ctx, p)
	})
}

func (l *lab) pending(ctx context.Context, prefix string, n int) error {
	return l.until(ctx, time.Minute, func() error {
		waits := 0
		for _, p := range l.seen.lives(of(prefix)) {
			if !p.pending.IsZero() {
				waits++
			}
		}
		if waits < n {
			return fmt.Errorf("the scheduler has answered for %d of %d pods", waits, n)
		}
		return nil
	})
}

// call waits for a pool's first call after a moment.
func (l *lab) call(ctx context.Context, after time.Time, pool string) (at time.Time, to int64, err error) {
	err = l.until(ctx, time.Minute, func() error {
		for _, c := range l.machines.since(after) {
			if c.pool == pool && c.to > c.from {
				at, to = c.at, c.to
				return nil
			}
		}
		return fmt.Errorf("pool %s has not been resized", pool)
	})
	return at, to, err
}

// told is what the last Event of the autoscaler's on a pod says.
func (l *lab) told(ctx context.Context, pod string) (string, error) {
	events, err := l.clients.EventsV1().Events(work).List(ctx, metav1.ListOptions{FieldSelector: "regarding.name=" + pod})
	if err != nil {
		return "", err
	}
	said := ""
	for i := range events.Items {
		if e := &events.Items[i]; strings.Contains(e.ReportingController, "gpuscale") {
			said = e.Reason + ": " + e.Note
		}
	}
	return said, nil
}
