package measure

import "runtime"

// HeapGrowth is how many bytes of heap live on after fill, as long as what it returns is kept.
func HeapGrowth(fill func() (kept any, err error)) (int64, error) {
	before := liveHeap()
	kept, err := fill()
	after := liveHeap()
	runtime.KeepAlive(kept)
	return int64(after) - int64(before), err
}

func liveHeap() uint64 {
	for range 3 { // finalizers and pools take more than one collection
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
