package scenario_test

import (
	"fmt"

	"github.com/gpuscale/gpuscale/plan"
)

// mostExplained bounds the pods of one plan that are explained by the harness:
// each costs a plan.
const mostExplained = 2

// explainedAlike: an explanation agrees with the plan, and does not change it.
// At most one option is chosen, and that one is possible; possible ones have a
// cost, the others a reason.
func explainedAlike(s plan.Snapshot, p plan.Policy, made plan.Plan) error {
	again := 0
	for i := range s.Pods {
		pod := &s.Pods[i]
		if pod.Node != "" {
			continue
		}
		if again++; again > mostExplained {
			return nil
		}
		e, ok := plan.Explain(s, p, pod.Key())
		if !ok {
			return fmt.Errorf("%s is pending and has no explanation", pod.Key())
		}
		if e.Plan.String() != made.String() {
			return fmt.Errorf("explaining %s made another plan:\n%s", pod.Key(), e.Plan)
		}
		if err := options(e); err != nil {
			return fmt.Errorf("explaining %s: %w", pod.Key(), err)
		}
	}
	return nil
}

func options(e plan.Explanation) error {
	chosen := 0
	for _, o := range e.Options {
		if o.Reason == "" || o.Detail == "" {
			return fmt.Errorf("%s %s: has no reason", o.Kind, o.On)
		}
		if o.Chosen {
			chosen++
		}
		if o.Chosen && !o.Possible {
			return fmt.Errorf("%s %s is taken and impossible: %s", o.Kind, o.On, o.Detail)
		}
		if o.Cost < 0 || o.Cost != 0 && !o.Possible {
			return fmt.Errorf("%s %s costs %v", o.Kind, o.On, o.Cost)
		}
	}
	served := map[plan.Reason]bool{plan.WaitUpcomingNode: true, plan.WaitRepartition: true, plan.WaitReclaim: true}
	refused := map[plan.Reason]bool{plan.GangWaits: true, plan.GangIncomplete: true, plan.QuotaExceeded: true, plan.NoPoolFits: true, plan.PoolAtMax: true, plan.PoolFixed: true}
	switch {
	case chosen > 0 && refused[e.Verdict.Reason]:
		return fmt.Errorf("%s, and an option is taken", e.Verdict.Reason)
	case chosen > 1:
		return fmt.Errorf("%d options are taken", chosen)
	case chosen == 0 && served[e.Verdict.Reason]:
		return fmt.Errorf("%s, and no option is taken", e.Verdict.Reason)
	}
	return nil
}
