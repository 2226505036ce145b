package adapter

import (
	"fmt"
	"math"
	"reflect"
	"strconv"

	"github.com/tokenbucket-go/ratelimit/core"
)

// ByContextValue limits by a value that earlier middleware, such as a login, left in the request's context. The key
// depends on the value's type:
//
//   - a string, or a type of kind string: its characters;
//   - an integer, or a type of an integer kind: its number, in decimal;
//   - a float that is a whole number below 2^53, as encoding/json makes of the numbers in a token's claims: the same;
//   - a pointer to one of these: what it points to;
//   - any other fmt.Stringer, such as a UUID or a netip.Addr: what String returns, which must differ between users.
//
// The first four don't use String and Error, because these may be made for logs and hide who the user is. Nil and
// "" are missing keys. A value of any other type is an error, because it may print differently in every request.
func ByContextValue(key any) KeyFunc {
	if t := reflect.TypeOf(key); t == nil || !t.Comparable() {
		return badKey("ByContextValue", t, "can't be the key of a context value: use a string or a comparable type of your own")
	}
	name := contextKeyName(key)
	return func(x Request) (string, error) {
		v, err := valueText(x.Value(key))
		switch {
		case err != nil:
			return "", fmt.Errorf("context value %q: %w", name, err)
		case v == "":
			return "", fmt.Errorf("%w: no context value %q", core.ErrNoKey, name)
		}
		return core.JoinKey("value", name, v), nil
	}
}

// contextKeyName returns a name for the key of a context. It includes the key's type, because most keys are empty
// structs. It includes no address, so it is the same in every process.
func contextKeyName(key any) string {
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

// valueText returns what identifies the user in v, or "" if v is nil or empty.
func valueText(v any) (string, error) {
	r := reflect.ValueOf(v)
	if r.Kind() == reflect.Pointer {
		if r.IsNil() {
			return "", nil
		}
		if kind := r.Elem().Kind(); kind == reflect.String || r.Elem().CanInt() || r.Elem().CanUint() || r.Elem().CanFloat() {
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
	case r.CanFloat():
		return wholeText(r.Float(), r.Type().Bits())
	}
	if s, ok := v.(fmt.Stringer); ok {
		return s.String(), nil
	}
	return "", fmt.Errorf("a %T is not a string, a whole number or a fmt.Stringer: store one of these in the context", v)
}

// wholeText returns the digits of f, a float of the given size. Of larger numbers several are one float, so that two users
// would share a bucket.
func wholeText(f float64, bits int) (string, error) {
	most := float64(1 << 53)
	if bits == 32 {
		most = 1 << 24
	}
	if f != math.Trunc(f) || math.Abs(f) >= most { // also NaN
		return "", fmt.Errorf("the float %v does not identify anybody: store a string or an integer in the context", f)
	}
	return strconv.FormatInt(int64(f), 10), nil
}
