package timely

import (
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// WithTimeout loses the hooks of a client, and go-redis does not tell whether there are any. So their number is read from
// the client's fields. hooksReadable tries that on a client of its own first: with a version of go-redis that has other
// fields, no client is taken for one without hooks.

// hookCounter returns a function that counts the hooks of client. It is nil if hooks can't be counted.
func hookCounter(client *redis.Client) func() int {
	if !hooksReadable() {
		return nil
	}
	return counterOf(client)
}

var hooksReadable = sync.OnceValue(func() bool {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"}) // never connects; a name would be looked up
	defer client.Close()
	count := counterOf(client)
	for want := range 3 {
		if count == nil || count() != want {
			return false
		}
		client.AddHook(noHook{})
	}
	return true
})

// noHook changes nothing.
type noHook struct{}

func (noHook) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (noHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (noHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// counterOf returns a function that measures the list of client's hooks, or nil if there is none. The list is a field of
// the client, or since v9.22 of what an atomic pointer there points to.
func counterOf(client *redis.Client) func() int {
	fields := reflect.ValueOf(client).Elem()
	state := fields.FieldByName("state")
	if !state.IsValid() {
		list := fields.FieldByName("slice")
		if list.Kind() != reflect.Slice {
			return nil
		}
		return list.Len
	}
	pointed, ok := pointedBy(state)
	if !ok {
		return nil
	}
	list, ok := pointed.FieldByName("slice")
	if !ok || list.Type.Kind() != reflect.Slice {
		return nil
	}
	// Methods of a field that is not exported can't be called. But all atomic pointers are alike, whatever they point to.
	now := reflect.NewAt(reflect.TypeFor[atomic.Pointer[byte]](), state.UnsafePointer()).Interface().(*atomic.Pointer[byte])
	return func() int {
		return reflect.NewAt(pointed, reflect.ValueOf(now.Load()).UnsafePointer()).Elem().FieldByIndex(list.Index).Len()
	}
}

// pointedBy is the struct T if v is a *atomic.Pointer[T] that points to one.
func pointedBy(v reflect.Value) (t reflect.Type, ok bool) {
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Type().Elem().PkgPath() != "sync/atomic" {
		return nil, false
	}
	load, ok := v.Type().MethodByName("Load")
	if !ok || load.Type.Out(0).Kind() != reflect.Pointer {
		return nil, false
	}
	t = load.Type.Out(0).Elem()
	return t, t.Kind() == reflect.Struct
}
