// Package neighbours contains fakes of other projects' programs that create nodes: Cluster API's controllers
// of MachineDeployments, and an infrastructure provider for its real controllers. They use the real CRDs from
// the projects' Go modules. A fake follows its original's documentation and source in sizes and in the choice
// of the machine that is deleted. It creates KWOK nodes. It does nothing else of its original: no bootstrap,
// no drain, no rollout.
package neighbours
