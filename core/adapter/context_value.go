package adapter

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/tokenbucket-go/ratelimit/core"
)

// ByContextValue limits by a value that earlier middleware, such as a login, left in the request's
// context. It accepts
//
//   - strings and types of kind string: their own characters,
//   - integers and types of integer kinds: their number, in decimal,
//   - pointers to these,
//   - any other fmt.Stringer, such as a UUID or a netip.Addr: what String returns, which must differ between
//     users.
//
// String and Error of the first three are not called: what they print may be made for logs, and hide who it is.
// Nil and "" are missing; a value of another type is an error, because it may print differently in every request.
func ByContextValue(key any) KeyFunc {
	if t := reflect.TypeOf(key); t == nil || !t.Comparable() {
		return bad("ByContextValue", t, "can't be the key of a context value: use a string, or a comparable type of your own")
	}
	name := nameOf(key)
	return func(x Exchange) (string, error) {
		v, err := text(x.Value(key))
		switch {
		case err != nil:
			return "", fmt.Errorf("context value %q: %w", name, err)
		case v == "":
			return "", fmt.Errorf("%w: no context value %q", core.ErrNoKey, name)
		}
		return core.JoinKey("value", name, v), nil
	}
}

// nameOf tells the keys of contexts apart: by their type too, because most are of empty structs. It is the same in
// every process, so no address is in it.
func nameOf(key any) string {
	if s, ok := key.(string); ok {
		return s
	}
	_, prints := key.(fmt.Stringer)
	switch t := reflect.TypeOf(key); t.Kind() {
	case reflect.Pointer:
		if !prints && t.Elem().Kind() != reflect.Struct {
			return t.String()
		}
	case reflect.Chan, reflect.UnsafePointer:
		return t.String()
	}
	return fmt.Sprintf("%T %v", key, key)
}

// text is the value that names someone; "" for none.
func text(v any) (string, error) {
	r := reflect.ValueOf(v)
	if r.Kind() == reflect.Pointer {
		if r.IsNil() {
			return "", nil
		}
		if kind := r.Elem().Kind(); kind == reflect.String || r.Elem().CanInt() || r.Elem().CanUint() {
			r = r.Elem()
		}
	}
	switch {
	case !r.IsValid():
		return "", nil
	case r.Kind() == reflect.String:
		return r.String(), nil
	case r.CanInt():
		return strconv.FormatInt(r.Int(), 10), nil
	case r.CanUint():
		return strconv.FormatUint(r.Uint(), 10), nil
	}
	if s, ok := v.(fmt.Stringer); ok {
		return s.String(), nil
	}
	return "", fmt.Errorf("a %T is not a string, an integer or a fmt.Stringer: leave one of these in the context", v)
}
