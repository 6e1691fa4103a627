package proc

import (
	"os/exec"
	"runtime"
	"sync"
)

// The kernel sends a child's parent-death signal when the *thread* that started it ends, not the process. Go
// ends idle threads at any time, so one thread that never ends starts all children.
var spawner = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread() // for ever
		for f := range work {
			f()
		}
	}()
	return work
})

func spawn(cmd *exec.Cmd) error {
	done := make(chan error)
	spawner() <- func() { done <- cmd.Start() }
	return <-done
}
