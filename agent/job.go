package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/retry"

	"github.com/gpuscale/gpuscale/agent/hardware"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/text"
)

// OffAnnotation on a node keeps its agent from starting operations.
const OffAnnotation = "gpuscale.io/mig-agent-off"

// errInterrupted: the operation has changed or the API server is unavailable; the next tick decides
// from the node's state.
var errInterrupted = errors.New("interrupted")

// job is the work on one record.
type job struct {
	a      *Agent
	record contract.Record
	answer contract.Answer
	// known is false where the agent's annotation may be lost: then it is unknown whether the agent
	// has touched the GPU.
	known      bool
	quiescedAt time.Time // when the exporter was asked to release the GPU, zero for never
}

// serve carries out a record to its end; worked is false if there was nothing left to do.
func (a *Agent) serve(ctx context.Context, node *corev1.Node, r contract.Record) (worked bool, err error) {
	j := &job{a: a, record: r}
	j.answer, j.known = begin(node, r)
	if j.answer.Final() {
		return false, nil
	}
	log := a.o.Log.With("operation", r.ID, "gpu", r.GPU)
	log.Info("operation", "target", r.Target, "before", r.Before, "step", j.answer.Step, "back", j.back())
	defer func() { j.resume(ctx) }()
	state, why := contract.AgentDone, error(nil)
	if !j.back() {
		why = j.forward(ctx, node)
		a.o.Metrics.operations.WithLabelValues(phaseRepartition, j.result(ctx, why)).Inc()
	}
	if interrupted(ctx, why) {
		return true, errors.Join(why, ctx.Err())
	}
	if why != nil {
		j.answer.Back, j.answer.Message, j.answer.Plugins = true, why.Error(), nil
		log.Warn("the GPU could not be repartitioned", "error", why, "touched", j.answer.Touched)
	}
	if j.back() {
		state = contract.AgentRestored
		err := j.backward(ctx, node)
		if why == nil || j.answer.Touched {
			a.o.Metrics.operations.WithLabelValues(phaseRestore, j.result(ctx, err)).Inc()
		}
		if interrupted(ctx, err) {
			return true, errors.Join(err, ctx.Err())
		}
		if err != nil {
			state, j.answer.Message = contract.AgentFailed, strings.TrimPrefix(j.answer.Message+"; rolling back: "+err.Error(), "; ")
		}
	}
	j.answer.State = state
	if err := j.note(ctx, j.answer.Step); err != nil {
		return true, err
	}
	log.Info("operation ended", "state", state, "why", j.answer.Message)
	return true, nil
}

func interrupted(ctx context.Context, err error) bool {
	return errors.Is(err, errInterrupted) || ctx.Err() != nil
}

// result returns the metric label for the end of a phase.
func (j *job) result(ctx context.Context, err error) string {
	switch {
	case interrupted(ctx, err):
		return resultInterrupted
	case err == nil:
		return resultDone
	case !j.answer.Touched:
		return resultRefused
	}
	return resultFailed
}

// begin returns the answer to continue with: the one on the node, or a new one that keeps what an
// earlier attempt left behind. known is false where an answer is missing or unreadable.
func begin(node *corev1.Node, r contract.Record) (a contract.Answer, known bool) {
	fresh := contract.Answer{ID: r.ID, Undo: r.Attempt(), State: contract.AgentWorking}
	text, there := node.Annotations[contract.AgentAnnotation]
	a, err := contract.ParseAnswer(text)
	switch {
	case there && err != nil:
		return fresh, false
	case !there || a.ID != r.ID:
		return fresh, r.Undo == nil
	case a.About(r):
		return a, true
	}
	fresh.Touched = a.Touched && a.State != contract.AgentRestored
	return fresh, true
}

func (j *job) back() bool { return j.record.Undo != nil || j.answer.Back }

// forward brings the GPU to the record's target.
func (j *job) forward(ctx context.Context, node *corev1.Node) error {
	if !j.answer.Touched {
		machine, err := j.a.read(ctx)
		if err != nil {
			return err
		}
		if err := j.a.permitted(node, machine); err != nil {
			return err
		}
		if err := j.expected(machine); err != nil {
			return err
		}
		if _, err := j.a.plugins(ctx); err != nil {
			return err
		}
	}
	return j.change(ctx, j.record.Target)
}

// expected returns why the GPU's state is not the one on which the operation was decided, nil if it is. The placements
// of instances may have been guessed, but not their number.
func (j *job) expected(m hardware.Machine) error {
	c, err := find(m, j.record.UUID, j.record.GPU)
	if err != nil {
		return err
	}
	if err := j.asBefore(c); err != nil {
		return fmt.Errorf("decided on another layout: %w", err)
	}
	_, err = parse(c, j.record.Target)
	return err
}

// asBefore returns how the GPU's state differs from the one before the operation, nil if it does
// not.
func (j *job) asBefore(c hardware.GPU) error {
	if err := inMIG(c); err != nil {
		return err
	}
	before, err := parse(c, j.record.Before)
	if err != nil {
		return err
	}
	if !slices.Equal(mig.Counts(before), mig.Counts(c.Layout())) {
		return fmt.Errorf("GPU %d is partitioned into %s, not %s", c.Index, c.Layout(), before)
	}
	return nil
}

// permitted returns why no operation may start on this node, nil if it may. An operation that has
// started is finished regardless.
func (a *Agent) permitted(node *corev1.Node, m hardware.Machine) error {
	if a.o.Config.Freeze {
		return errors.New("switched off by the agent's configuration (freeze: true)")
	}
	if _, off := node.Annotations[OffAnnotation]; off {
		return fmt.Errorf("switched off by the node's annotation %s", OffAnnotation)
	}
	if err := contract.ManagerActs(node); err != nil {
		return err
	}
	if a.o.Config.AllowUnfixedDriver {
		return nil
	}
	return fixed(m.Driver, a.o.Config.FixedDrivers)
}

// backward restores the GPU's state. A GPU that was never touched has it already.
func (j *job) backward(ctx context.Context, node *corev1.Node) error {
	if !j.answer.Touched && j.known {
		return nil
	}
	if !j.answer.Touched {
		machine, err := j.a.read(ctx)
		if err != nil {
			return err
		}
		c, err := find(machine, j.record.UUID, j.record.GPU)
		if err != nil {
			return err
		}
		differs := j.asBefore(c)
		if differs == nil {
			return nil
		}
		if err := j.a.permitted(node, machine); err != nil {
			return fmt.Errorf("%w, and annotation %s, which had the reason, is lost: %w", differs, contract.AgentAnnotation, err)
		}
	}
	return j.change(ctx, j.record.Before)
}

// change repartitions the GPU, and has the exporter and the device plugin read it again. Steps that must not be
// repeated are recorded first.
func (j *job) change(ctx context.Context, layout string) error {
	if j.answer.Plugins == nil {
		if err := j.repartition(ctx, layout); err != nil {
			return err
		}
	}
	if !j.answer.Touched {
		return nil // it is as requested already
	}
	if j.answer.Plugins == nil {
		uids, err := j.a.plugins(ctx)
		if err != nil {
			return err
		}
		j.answer.Plugins = uids
	}
	if err := j.note(ctx, "restart the device plugin"); err != nil {
		return err
	}
	return j.a.replacePlugins(ctx, j.answer.Plugins)
}

// note records the next step on the node, and checks that the operation still stands and, on the
// way forward, has time left.
func (j *job) note(ctx context.Context, step string) error {
	now := j.a.o.Now()
	if !j.back() && !j.answer.Final() && now.After(j.record.Deadline) {
		return fmt.Errorf("its deadline %s has passed before step: %s", j.record.Deadline.UTC().Format(time.RFC3339), step)
	}
	j.answer.Step, j.answer.At = text.Short(step, maxWords), now.UTC().Truncate(time.Second)
	j.answer.Message = text.Short(j.answer.Message, maxWords)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := j.a.o.Cluster.Node(ctx)
		if err != nil {
			return err
		}
		if r, ok, err := contract.RecordOf(node); !ok || err != nil || !j.answer.About(r) {
			return errors.New("the operation has changed or is gone")
		}
		return j.a.o.Cluster.annotate(ctx, node.ResourceVersion, map[string]any{contract.AgentAnnotation: j.answer.String()})
	})
	if err != nil {
		return fmt.Errorf("%w: %w", errInterrupted, err)
	}
	return nil
}

// maxWords bounds the messages on the node in bytes: an annotation that is too long to be read
// counts as lost.
const maxWords = 2 << 10

// quiesceFor is the time after which the exporter reacquires the GPU by itself. It is asked again
// before half of that is over.
const quiesceFor = 5 * time.Minute

// quiesce asks the exporter to release the GPU.
func (j *job) quiesce(ctx context.Context) error {
	if time.Since(j.quiescedAt) < quiesceFor/2 {
		return nil
	}
	defer j.a.o.Metrics.timed(verbExporter, time.Now())
	if err := j.a.o.Config.Exporter.Quiesce(ctx, j.record.UUID, quiesceFor); err != nil {
		return err
	}
	j.quiescedAt = time.Now()
	return nil
}

// resume asks the exporter to reacquire the GPU, also if it released it before the agent was
// restarted. Without it the exporter does so after quiesceFor.
func (j *job) resume(ctx context.Context) {
	if j.quiescedAt.IsZero() && !j.answer.Touched {
		return
	}
	if err := j.a.o.Config.Exporter.Resume(context.WithoutCancel(ctx), j.record.UUID); err != nil {
		j.a.o.Log.Warn("the exporter was not asked to reacquire GPUs", "gpus", j.record.UUID, "error", err)
	}
}

// parse reads a layout of the GPU.
func parse(c hardware.GPU, text string) (mig.Layout, error) {
	table, err := mig.NewTable(c.Spec)
	if err != nil {
		return nil, err
	}
	return mig.ParseLayout(table, text)
}
