package io.bloomparquet.spark.tables;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;

/** Calls members of classes that the jar is compiled without. */
final class Members {
  private static final ClassValue<Map<String, Optional<Method>>> METHODS =
      new ClassValue<>() {
        @Override
        protected Map<String, Optional<Method>> computeValue(Class<?> type) {
          return new ConcurrentHashMap<>();
        }
      };

  private Members() {}

  static boolean has(Object target, String name) {
    return method(target.getClass(), name).isPresent();
  }

  /** The result of a method without parameters, which need not be public. */
  @SuppressWarnings("unchecked")
  static <T> T call(Object target, String name) throws UnknownMemberException {
    Optional<Method> method = method(target.getClass(), name);
    if (method.isEmpty()) {
      throw new UnknownMemberException(target.getClass().getName() + " has no method " + name + "()");
    }
    return (T) call(method.get(), target);
  }

  /** The result of a public method with one parameter of the type {@code parameter}; a static one if there is no target. */
  static Object call(Class<?> owner, Object target, String name, Class<?> parameter, Object argument)
      throws UnknownMemberException {
    try {
      return call(owner.getMethod(name, parameter), target, argument);
    } catch (NoSuchMethodException error) {
      throw new UnknownMemberException(owner.getName() + " has no method " + name + "(" + parameter.getName() + ")");
    }
  }

  private static Object call(Method method, Object target, Object... arguments) throws UnknownMemberException {
    try {
      return method.invoke(target, arguments);
    } catch (InvocationTargetException error) {
      throw new UnknownMemberException(method + " failed: " + error.getCause());
    } catch (ReflectiveOperationException | IllegalArgumentException error) {
      throw new UnknownMemberException(method + ": " + error);
    }
  }

  static Object field(Object target, String name) throws UnknownMemberException {
    try {
      Field field = target.getClass().getDeclaredField(name);
      field.setAccessible(true);
      return field.get(target);
    } catch (ReflectiveOperationException error) {
      throw new UnknownMemberException(target.getClass().getName() + " has no field " + name);
    }
  }

  /** A class that the loader of {@code near} knows. */
  static Class<?> type(Object near, String name) throws UnknownMemberException {
    try {
      return Class.forName(name, false, near.getClass().getClassLoader());
    } catch (ClassNotFoundException error) {
      throw new UnknownMemberException("there is no class " + name);
    }
  }

  /** A new object, by the constructor with {@code parameters}. */
  static Object create(Class<?> owner, List<Class<?>> parameters, Object... arguments) throws UnknownMemberException {
    try {
      Constructor<?> constructor = owner.getDeclaredConstructor(parameters.toArray(Class<?>[]::new));
      constructor.setAccessible(true);
      return constructor.newInstance(arguments);
    } catch (ReflectiveOperationException | RuntimeException error) {
      throw new UnknownMemberException(owner.getName() + " has another constructor: " + error);
    }
  }

  private static Optional<Method> method(Class<?> type, String name) {
    return METHODS.get(type).computeIfAbsent(name, each -> find(type, each));
  }

  private static Optional<Method> find(Class<?> type, String name) {
    for (Class<?> each = type; each != null; each = each.getSuperclass()) {
      try {
        return Optional.of(accessible(each.getDeclaredMethod(name)));
      } catch (NoSuchMethodException inherited) {
        // looked for in the superclass
      }
    }
    try {
      return Optional.of(accessible(type.getMethod(name))); // of an interface
    } catch (NoSuchMethodException error) {
      return Optional.empty();
    }
  }

  private static Method accessible(Method method) {
    method.setAccessible(true);
    return method;
  }
}
