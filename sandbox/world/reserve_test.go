package world

import (
	"net"
	"strconv"
	"testing"
)

func TestAReservedPortKeepsItsName(t *testing.T) {
	var r reserved
	defer r.release()
	port, err := r.port("a")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := r.port("a"); again != port || err != nil {
		t.Errorf("%d, then %d, %v", port, again, err)
	}
	if other, err := r.port("b"); other == port || err != nil {
		t.Errorf("two names have port %d, %v", other, err)
	}
	for range 3 { // as an exporter that is started again and again
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
}
