package fiberlimit

import (
	"reflect"
	"sync"

	"github.com/gofiber/fiber/v3"
)

// unreadable reports whether the server could read no request: the connection
// was idle for too long, or what it sent is not valid. Fiber v3 then runs
// middleware all the same, so that it can add header fields, and answers with
// the error handler. There is nothing to limit, and what middleware returns is
// not sent.
//
// Only an unexported field of fiber's context says so. Without it nothing is
// unreadable, and such a connection takes tokens.
func unreadable(c fiber.Ctx) bool {
	if _, plain := c.(*fiber.DefaultCtx); plain {
		return skips(reflect.ValueOf(c), plainField)
	}
	t := reflect.TypeOf(c) // a context of the app's own, in which fiber's is embedded
	field, known := fields.Load(t)
	if !known {
		field, _ = fields.LoadOrStore(t, skipField(t))
	}
	return skips(reflect.ValueOf(c), field.([]int))
}

var (
	plainField = skipField(reflect.TypeFor[*fiber.DefaultCtx]())
	fields     sync.Map // of reflect.Type to []int: an app has one type of context
)

// skipField returns where in *t the field is, or nil.
func skipField(t reflect.Type) []int {
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil
	}
	if field, ok := t.Elem().FieldByName("shouldSkipNonUseRoutes"); ok && field.Type.Kind() == reflect.Bool {
		return field.Index
	}
	return nil
}

func skips(c reflect.Value, field []int) bool {
	if field == nil {
		return false
	}
	skip, err := c.Elem().FieldByIndexErr(field)
	return err == nil && skip.Bool()
}
