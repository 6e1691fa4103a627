package boards

import "github.com/gpuscale/gpuscale/dashboards/board"

// UIDs of the boards. They never change: users' links point at them.
const (
	FleetUID     = "gpuscale-fleet"
	TenantsUID   = "gpuscale-tenants"
	WorkloadUID  = "gpuscale-workload"
	PoolsUID     = "gpuscale-pools"
	MIGUID       = "gpuscale-mig"
	DecisionsUID = "gpuscale-decisions"
	HealthUID    = "gpuscale-health"
	SelfUID      = "gpuscale-self"
)

// All returns every board, from the whole to the parts.
func All() []board.Board {
	return []board.Board{Fleet(), Tenants(), Workload(), Pools(), MIG(), Decisions(), Health(), Self()}
}
