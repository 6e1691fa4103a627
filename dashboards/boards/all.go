package boards

import "github.com/gpuscale/gpuscale/dashboards/board"

// UIDs of the boards. They never change: users' links point at them.
const (
	OverviewUID   = "gpuscale-overview"
	WorkloadUID   = "gpuscale-workload"
	MIGUID        = "gpuscale-mig"
	HealthUID     = "gpuscale-health"
	AutoscalerUID = "gpuscale-autoscaler"
)

// All returns every board, from the whole to the parts.
func All() []board.Board {
	return []board.Board{Overview(), Workload(), MIG(), Health(), Autoscaler()}
}
