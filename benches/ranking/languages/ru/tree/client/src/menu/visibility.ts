/** Пункт бокового меню вместе с вложенными. */
export interface MenuItem {
  title: string;
  path: string;
  needs?: string[];
  children?: MenuItem[];
}

/**
 * Убирает из меню пункты, на которые у пользователя не хватает прав. Раздел, в котором после
 * этого ничего не осталось, прячем тоже. Это лишь удобство: настоящая проверка живёт на сервере.
 */
export function visibleMenu(items: MenuItem[], granted: Set<string>): MenuItem[] {
  return items
    .filter((item) => (item.needs ?? []).every((permission) => granted.has(permission)))
    .map((item) => ({ ...item, children: item.children && visibleMenu(item.children, granted) }))
    .filter((item) => !item.children || item.children.length > 0);
}

/** Куда отправить человека сразу после входа: первый доступный ему экран либо заглушка с телефоном администратора. */
export function landingPath(items: MenuItem[], granted: Set<string>): string {
  const [first] = visibleMenu(items, granted);
  if (!first) return "/no-access";
  return first.children ? landingPath(first.children, granted) : first.path;
}

/** Цепочка заголовков до открытой страницы, то есть хлебные крошки над содержимым. */
export function breadcrumbs(items: MenuItem[], path: string): string[] {
  for (const item of items) {
    if (item.path === path) return [item.title];
    const tail = breadcrumbs(item.children ?? [], path);
    if (tail.length > 0) return [item.title, ...tail];
  }
  return [];
}
