package fiberlimit

import (
	"reflect"

	"github.com/gofiber/fiber/v2"
)

// Route returns the path of Use, and that the route is not known, if the
// middleware was installed by Use.
func (x request) Route() (pattern string, known bool) {
	route := x.c.Route()
	return route.Path, !installedByUse(route)
}

// useField is the field of a fiber route that says whether Use made it. Fiber
// v2 has no other way to find out.
var useField, hasUseField = reflect.TypeFor[fiber.Route]().FieldByName("use")

// installedByUse reports whether Use made route. Its handlers run for all
// routes below its path.
func installedByUse(route *fiber.Route) bool {
	return hasUseField && useField.Type.Kind() == reflect.Bool && reflect.ValueOf(route).Elem().FieldByIndex(useField.Index).Bool()
}
