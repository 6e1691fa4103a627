package prom

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// TestAServerThatStallsLetsOthersHaveTheirTurn in the middle of its answer.
func TestAServerThatStallsLetsOthersHaveTheirTurn(t *testing.T) {
	begun, leave := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, heads[0]+`{"metric":{"pod":"a"},"value":[1,"2"]},`)
		_ = http.NewResponseController(w).Flush()
		<-leave
		_, _ = io.WriteString(w, `{"metric":{"pod":"b"},"value":[1,"3"]}]}}`)
	}))
	defer server.Close()
	c, err := New(Config{URL: server.URL, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var lock sync.Mutex
	sum, ended := 0., make(chan error, 1)
	go func() {
		ended <- c.Each(t.Context(), "up", time.Time{}, &lock, func(_ [][2][]byte, value float64, _ time.Time) {
			if sum += value; sum == 2 {
				close(begun)
			}
		})
	}()
	<-begun
	lock.Lock()
	select {
	case err := <-ended:
		t.Errorf("the lock was free only after the end: %v", err)
	default:
	}
	lock.Unlock()
	close(leave)
	if err := <-ended; err != nil || sum != 5 {
		t.Errorf("%v, %v", sum, err)
	}
}
